"""What-ifs: one question, asked of recorded jobs (`history`) or of the present (`dally.live.forecast.whatif`)."""
