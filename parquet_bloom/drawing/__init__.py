"""Plain results -> charts and the page of `report`: it reads no file, and knows no verb."""
