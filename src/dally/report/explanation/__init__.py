"""Why jobs wait and what happened to them, from decision records, for the terminal, the API and pages."""
