// How the search orders what it finds. As Sphinx has it, but a name that only holds the
// word comes after the pages that explain it; a name that is the word comes first.
// biome-ignore lint/correctness/noUnusedVariables: Sphinx's search reads it
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 1,
  objPrio: { 0: 0, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
