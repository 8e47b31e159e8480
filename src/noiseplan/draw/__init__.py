"""Pictures of errors and intervals: for files and notebooks, inside a page, on a terminal.

`chart_layout`
    The cells of a released table, and how they are best laid out.
`error_bars`, `error_dots`
    Charts as plain Vega-Lite specifications: a table with its intervals, and the errors of a plan
    or of several.
`figure`
    What those charts share, and the two ways to show them: a file, or a notebook's chart. Only
    this needs the ``plot`` extra.
`svg`, `html`
    The same as markup for a page that loads nothing.
`terminal`
    The errors of a plan as bars of letters.
"""
