"""Write the page on the glossary: python tools/glossary_page.py."""

from __future__ import annotations

from pathlib import Path

from planner.show.glossary import glossary_markdown

PAGE = Path(__file__).parents[1] / "docs" / "glossary.md"


def main() -> None:
    """Write the page."""
    PAGE.write_text(glossary_markdown(), encoding="utf-8")
    print(f"{PAGE.name}: {len(glossary_markdown().splitlines())} lines")


if __name__ == "__main__":
    main()
