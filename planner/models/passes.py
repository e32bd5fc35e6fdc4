"""What an encoder of images or sounds holds at the widest points of its forward pass.

Figures are values of one of its rows: a patch, or a step of a sound. They are counted
in the classes' code, as a name, an argument of a call or a list refers to a tensor, and
were compared with the allocations of vLLM's own starts without a GPU.
"""

from __future__ import annotations

from planner.engine.releases.change import Change
from planner.values import frozen


@frozen(kw_only=False)
class Moment:
    """A point of the pass, by what one row has at once."""

    name: str
    whole: int
    """Values that each rank holds in full."""
    cut: int = 0
    """Values that the ranks divide among them."""
    reduced: int = 0
    """Values more where several ranks add up or gather their parts."""
    per_split: int = 0
    """Of `cut`'s kind, more for each part into which attention splits its keys."""
    native: int = 0
    """Of `cut`'s kind, more where PyTorch computes an activation step by step that
    vLLM has a kernel for, as quick_gelu: in starts that compile the language model."""
    unfused: int = 0
    """The same of an activation of which the compiler makes a kernel, before it did."""
    native_whole: int = 0
    """Of `whole`'s kind, more where PyTorch computes norms, as in starts that compile
    the language model: those that add up return sums of their own."""

    def values(
        self,
        ranks: int,
        splits: int,
        *,
        is_native: bool = False,
        is_unfused: bool = False,
    ) -> int:
        """Return the values of a row on one rank."""
        parts = splits if splits > 1 else 0
        more = is_native * self.native + is_unfused * self.unfused
        cut = (self.cut + parts * self.per_split + more) // ranks
        whole = self.whole + is_native * self.native_whole
        return whole + cut + (self.reduced if ranks > 1 else 0)


@frozen(kw_only=False)
class Held:
    """A tensor that a name refers to from here on; without values, none any more."""

    name: str
    whole: int = 0
    """Values of a row that each rank holds in full."""
    cut: int = 0
    """Values that the ranks divide among them."""
    reduced: int = 0
    """Values that there are where several ranks add up their parts."""

    def values(self, ranks: int) -> int:
        """Return the values of a row on one rank."""
        return self.whole + self.cut // ranks + (self.reduced if ranks > 1 else 0)


@frozen
class Attention:
    """Attention over sequences of one length, as its kernel splits them."""

    num_heads: int
    head_size: int
    length: int
    """Rows of a sequence."""


@frozen
class Turns:
    """How a tower that encodes its items in turns limits a turn.

    Source: vLLM 0.33.0 `models/gemma4_mm.py` _encoder_chunk.
    """

    bytes_per_row: int
    """What the class takes a row for."""
    kept: int
    """Values of a row that earlier turns leave."""
    copied: tuple[str, ...]
    """Modalities whose inputs a turn copies."""
    since: Change
    """The change that encodes several pieces in a turn; before, one at a time."""


@frozen
class TowerPass:
    """The widest points of a tower's forward pass."""

    moments: tuple[Moment, ...]
    stays: int = 0
    """Values of a row that stay on the GPU, once for all items of a size."""
    tables_bytes: int = 0
    """Of tables that do not grow with the rows."""
    kept_tables_bytes: int = 0
    """Of those of them that stay on the GPU."""
    attention: Attention | None = None
    """None: sequences are so long that keys are not split."""
    turns: Turns | None = None
    input_copies: int = 1
    """How often the inputs are there at the peak."""
    copies_share: bool = False
    """Whether a rank copies its share of the inputs where ranks divide the items."""
    left: int = 0
    """Values of a row in freed blocks, of which the outputs take one if it fits."""
    steps: tuple[Held, ...] = ()
    """What blocks allocate in order, where outputs that stay take the freed blocks."""


def block_pass(
    size: int,
    mlp_size: int,
    *,
    beside: int,
    is_gated: bool = False,
    more: int = 0,
) -> TowerPass:
    """Return the pass of blocks whose attention and MLP have usual names.

    The MLP is widest at its activation, whose input and output exist at once. In
    attention these are queries, keys and values in one, and the output, beside it the
    output's projection.

    Args:
        size: the tower's width.
        mlp_size: channels of the MLP.
        beside: values as wide as the tower beside the MLP's own: the input of the
            first block, that of this one, residuals and norms, as far as names refer
            to them.
        is_gated: whether the MLP's first layer is twice as wide.
        more: further values of a row, such as rotary tables.
    """
    first = 2 * mlp_size if is_gated else mlp_size
    whole = beside * size + more
    return TowerPass(
        moments=(
            Moment(
                "MLP",
                # A gated MLP reads its input, and later its output takes the place.
                whole=whole + size if is_gated else whole,
                cut=first + mlp_size,
                unfused=mlp_size if is_gated else 0,
            ),
            Moment(
                "MLP's output",
                whole=whole + size,
                cut=first + mlp_size if is_gated else mlp_size,
                reduced=size,
            ),
            Moment("attention", whole=whole - size, cut=4 * size, per_split=2 * size),
            Moment("attention's output", whole=whole, cut=4 * size, reduced=size),
        ),
    )
