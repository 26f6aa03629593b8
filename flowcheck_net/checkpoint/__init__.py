"""Gradients of whole iterations, put together from what the observation points saw."""
