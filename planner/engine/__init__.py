"""What a start of vLLM is configured with: arguments, environment, GPU, release.

Read `settings` first (what the user typed), then `arguments` (the table behind it),
`gpu`, `layout` and `releases`. `devices` finds the hardware of this machine.
"""
