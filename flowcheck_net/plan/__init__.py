"""What we shall do: choose the observation points, and check the choice. Pure."""
