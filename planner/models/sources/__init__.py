"""The outside world, inward: files, the Hub, the attached GPU."""
