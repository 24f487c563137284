"""Tables: from every kind of model, from the catalogue, and the statements that create them."""
