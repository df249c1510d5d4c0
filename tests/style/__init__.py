"""The shape of the project: layout, names, pages, builds."""
