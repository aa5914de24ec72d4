"""Asking somebody over the network: with a limit of time, patience, and pauses for who fails."""
