"""One run: scenario → assemble → execute → record → folder."""
