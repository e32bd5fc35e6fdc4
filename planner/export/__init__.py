"""Take a plan away: commands, code, manifests, links, reports and files."""
