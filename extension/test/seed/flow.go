package seed

import "context"

// task is a task of gardenlet's flow for an operation.
type task struct {
	name string
	run  func(context.Context) error
}

// perform runs the tasks of an operation one after the other. gardenlet runs independent ones in parallel.
func (s *Shoot) perform(ctx context.Context, tasks ...task) error {
	for i, t := range tasks {
		if s.Progress != nil {
			s.Progress(t.name, int32(100*i/len(tasks)))
		}

		if err := t.run(ctx); err != nil {
			return err
		}
	}

	return nil
}
