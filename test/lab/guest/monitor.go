// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// monitor is a connection to QEMU's control socket (QMP).
type monitor struct {
	conn    net.Conn
	encoder *json.Encoder
	replies chan message
	closed  chan struct{} // QEMU has ended, or close was called

	mu sync.Mutex // one command at a time
}

// message is any message of QEMU or of a guest agent.
type message struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	Event string `json:"event"`
	Data  struct {
		Guest bool `json:"guest"` // of SHUTDOWN: the guest has caused it
	} `json:"data"`
}

// replyTimeout bounds the wait for a reply. QEMU replies within seconds even on a busy machine.
const replyTimeout = time.Minute

var errClosed = errors.New("QEMU has closed the connection")

// connectMonitor connects to a control socket. Each event is passed to onEvent, which must not block.
func connectMonitor(ctx context.Context, socket string, onEvent func(message)) (*monitor, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to QEMU: %w", err)
	}
	return newMonitor(conn, onEvent)
}

func newMonitor(conn net.Conn, onEvent func(message)) (*monitor, error) {
	m := &monitor{conn: conn, encoder: json.NewEncoder(conn), replies: make(chan message, 1), closed: make(chan struct{})}
	go m.read(onEvent)
	if _, err := m.execute("qmp_capabilities", nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return m, nil
}

func (m *monitor) read(onEvent func(message)) {
	defer close(m.closed)
	decoder := json.NewDecoder(m.conn)
	for {
		var got message
		if err := decoder.Decode(&got); err != nil {
			return
		}
		switch {
		case got.Event != "":
			onEvent(got)
		case got.Return != nil || got.Error != nil: // anything else is the greeting
			m.replies <- got
		}
	}
}

// execute runs a command, waits for its reply, and returns the result.
func (m *monitor) execute(command string, arguments map[string]any) (json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	err := errors.Join(m.conn.SetWriteDeadline(time.Now().Add(replyTimeout)), m.encoder.Encode(request))
	if err != nil {
		return nil, fmt.Errorf("send %s to QEMU: %w", command, err)
	}
	select {
	case got := <-m.replies:
		if got.Error != nil {
			return nil, fmt.Errorf("QEMU refuses %s: %s", command, got.Error.Desc)
		}
		return got.Return, nil
	case <-m.closed:
		return nil, fmt.Errorf("%s: %w", command, errClosed)
	case <-time.After(replyTimeout):
		m.close() // the next command would read this one's reply
		return nil, fmt.Errorf("%s: QEMU has not replied within %s", command, replyTimeout)
	}
}

// forward makes a port of the loopback interface reach a port of the guest.
func (m *monitor) forward(network string, from, to int) error {
	result, err := m.execute("human-monitor-command", map[string]any{
		"command-line": fmt.Sprintf("hostfwd_add %s tcp:127.0.0.1:%d-:%d", network, from, to),
	})
	if err != nil {
		return err
	}
	// A command of the human monitor prints its errors.
	var printed string
	if err := json.Unmarshal(result, &printed); err != nil {
		return fmt.Errorf("read QEMU's result: %w", err)
	}
	if printed = strings.TrimSpace(printed); printed != "" {
		return fmt.Errorf("QEMU does not forward port %d to port %d of the guest: %s", from, to, printed)
	}
	return nil
}

// pressPowerButton asks the guest to shut down.
func (m *monitor) pressPowerButton() error {
	_, err := m.execute("system_powerdown", nil)
	return err
}

func (m *monitor) close() { _ = m.conn.Close() }
