"""For those who test against kfast; no module of the product imports it."""
