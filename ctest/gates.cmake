# Gates: a label, a folder of claims, a list of required cases.
