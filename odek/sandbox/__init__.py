"""The container: what is asked for, the docker argv, the running box. No policy, no agent."""
