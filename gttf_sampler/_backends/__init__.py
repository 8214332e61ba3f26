"""The hot code behind one door: `ops` calls the backend that is chosen."""
