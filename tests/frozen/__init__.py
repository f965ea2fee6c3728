"""Today's behaviour as data: tables that hold while code moves."""
