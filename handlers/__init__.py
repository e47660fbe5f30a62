"""HTTP meaning: reads each protocol's body into a neutral request and encodes events back."""
