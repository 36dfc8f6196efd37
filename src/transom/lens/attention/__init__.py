"""What one attention is: its record, its statistics, its receipt, its map."""
