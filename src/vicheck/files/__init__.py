"""Reading and writing files, whoever wrote them."""
