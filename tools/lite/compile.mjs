// Compiles the packages of a folder, each in a folder of its own, with the Python that
// the browser will run: which then need not, and shows its first chart seconds earlier.
//
//     node compile.mjs PYODIDE-FOLDER FOLDER
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, folder] = process.argv.slice(2).map((path) => resolve(path));
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: `${pyodide}/` });
python.mountNodeFS("/code", folder);
const isWhole = python.runPython(`
import compileall, os, py_compile, re, sysconfig, warnings
warnings.simplefilter("ignore", SyntaxWarning)  # of others' packages
# Unchecked: what lies in a wheel has no time of change to compare with.
unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
installed = sysconfig.get_path("purelib")
# Large, and hardly ever read: languages, alphabets.
rarely = re.compile(
    r"/pygments/lexers/(?!_mapping|python)|/table_grapheme_overrides/"
    r"|/encodings/(?!__|utf_8|ascii|latin_1|idna|aliases|cp437)"
)
all(
    compileall.compile_dir(
        package.path, quiet=2, maxlevels=30, invalidation_mode=unchecked, rx=rarely,
        stripdir=package.path, prependdir=installed,
    )
    for package in os.scandir("/code")
)
`);
process.exit(isWhole ? 0 : 1);
