"""Steps on plain files outside any recipe: a small recipe in memory around the same functions."""
