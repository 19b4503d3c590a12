package spi

// Progress is a step of a machine that somebody who follows it wants to see. What is wrong with a machine is an error instead.
type Progress struct {
	// Reason is a stable token, fit for matching.
	Reason string
	// Message says it in a sentence.
	Message string
}

// Report takes the progress of a machine. It may be told the same more than once. The nil Report takes nothing.
type Report func(Progress)

// Tell reports a step.
func (r Report) Tell(p Progress) {
	if r != nil {
		r(p)
	}
}
