"""The rules that an adapter keeps, in one class for each kind of rule."""
