"""One self-contained HTML file about a run, a comparison or a sweep."""
