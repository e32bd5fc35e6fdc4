"""Charts of plans and other results: plotly figures, described in plotly's JSON."""
