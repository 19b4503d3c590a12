// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"

	"k8s.io/klog/v2"
)

// LogToFile sends klog's output of this process, which is mostly client-go's, to a file.
func LogToFile(path string, verbosity int) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create log: %w", err)
	}

	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)

	for name, value := range map[string]string{
		"v": strconv.Itoa(verbosity), "logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true",
	} {
		err = errors.Join(err, flags.Set(name, value))
	}

	klog.SetOutput(file) // klog serializes its writes.

	return err
}
