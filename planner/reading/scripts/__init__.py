"""Shell scripts and their kin, evaluated and never run: words and their origins."""
