// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import "sync"

// Tail keeps the end of the written data.
type Tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 4 << 10

// Write implements io.Writer.
func (t *Tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, data...)
	if over := len(t.data) - tailSize; over > 0 {
		t.data = append([]byte(nil), t.data[over:]...)
	}
	return len(data), nil
}

// String returns at most the last 4 KiB.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}
