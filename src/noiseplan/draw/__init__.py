"""Pictures of errors and intervals: for files and notebooks, inside a page, on a terminal.

`svg`, `html`
    Axes, small bars and curves as SVG; markup that is escaped.
`table_svg`, `error_dots`
    A table with its intervals; the errors of a plan, or of several plans.
`picture`
    A drawing under its title, which a notebook shows and a file holds.
`notebook`
    Schemas, plans, releases and answers as HTML.
`terminal`
    The errors of a plan as bars of letters.
"""
