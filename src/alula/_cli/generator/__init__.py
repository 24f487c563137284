"""`alula new` and `alula generate`: applications, and what is added to them."""
