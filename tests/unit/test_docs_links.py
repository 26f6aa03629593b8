"""No page sends its reader to a file that is not there."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PAGES = sorted([*TOP.glob("*.md"), *TOP.glob("docs/**/*.md"), *TOP.glob("p4/*.md")])
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_links_lead_somewhere(page: Path):
    gone = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not gone
