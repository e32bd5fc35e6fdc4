"""Take a plan away: commands, code, manifests, links, reports and files."""

from planner.export.links import link
from planner.export.reading_links import ReadLink, read_link

__all__ = ["ReadLink", "link", "read_link"]
