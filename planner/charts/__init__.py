"""Pictures of a plan: plotly figures, described in plain values first."""
