"""A run as one HTML page: score, plots, a row a problem, and how each search went. Needs matplotlib (the extra `report`)."""
