// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	one, err := parseStat("42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1 0 5")
	require.NoError(t, err)
	require.Equal(t, stat{pid: 42, parent: 7, used: 2 * time.Second}, one)
	_, err = parseStat("42 (a) S 7")
	require.Error(t, err)
}

func TestCPUTimeOfThisProcess(t *testing.T) {
	t.Parallel()
	_, err := CPUTime(os.Getpid())
	require.NoError(t, err)
}

// TestCPUTimeOfGuests requires that guests count after their end, when the number of their process may
// be another's.
func TestCPUTimeOfGuests(t *testing.T) {
	t.Parallel()
	h := &Hypervisor{guests: map[types.UID]*guest{"1": {used: time.Second}, "2": {used: 2 * time.Second}, "3": {}}}
	require.Equal(t, 3*time.Second, h.CPUTime())
}

func TestContainerImage(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "bin"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(root, "bin/busybox"), []byte("program"), 0o600))
	require.NoError(t, writeContainerImage(root))
	data, err := os.ReadFile(filepath.Join(root, "usr/share/lab/images.tar"))
	require.NoError(t, err)
	files := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		files[header.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	require.NoError(t, json.Unmarshal(files["manifest.json"], &manifest))
	require.Equal(t, []string{ContainerImage, sandboxImage}, manifest[0].RepoTags)
	require.Contains(t, files, manifest[0].Config)
	require.Contains(t, files, manifest[0].Layers[0])
	require.Contains(t, string(files["layer.tar"]), "program")
}

func TestRecipeHash(t *testing.T) {
	t.Parallel()
	one, err := hashRecipe("/cache/kubelet-1/kubelet")
	require.NoError(t, err)
	same, err := hashRecipe("/cache/kubelet-1/kubelet")
	require.NoError(t, err)
	other, err := hashRecipe("/cache/kubelet-2/kubelet")
	require.NoError(t, err)
	require.Equal(t, one, same, "a second lab finds the image")
	require.NotEqual(t, one, other, "another kubelet needs another image")
}

func TestProxy(t *testing.T) {
	t.Parallel()
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "kubelet")
	}))
	t.Cleanup(kubelet.Close)
	socket := filepath.Join(shortDir(t), "proxy")
	p, err := startProxy(t.Context(), socket, func(node string) (string, bool) {
		return kubelet.Listener.Addr().String(), node == "worker-1"
	})
	require.NoError(t, err)
	t.Cleanup(p.close)

	conn, status := connectTo(t, socket, "worker-1:10250")
	require.Equal(t, http.StatusOK, status)
	_, err = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "kubelet")

	_, status = connectTo(t, socket, "worker-2:10250")
	require.Equal(t, http.StatusBadGateway, status, "only guests are destinations")
}

// shortDir returns a folder for sockets, whose paths are limited to 108 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "g")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func connectTo(t *testing.T, socket, target string) (net.Conn, int) {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "CONNECT "+target+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 1), &http.Request{Method: http.MethodConnect})
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return conn, response.StatusCode
}

// serveLines answers each line on a socket with the lines that reply returns.
func serveLines(t *testing.T, socket, greeting string, reply func(command string) string) {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, greeting)
		decoder := json.NewDecoder(conn)
		for {
			var request struct {
				Execute   string `json:"execute"`
				Arguments struct {
					ID json.RawMessage `json:"id"`
				} `json:"arguments"`
			}
			if decoder.Decode(&request) != nil {
				return
			}
			answer := reply(request.Execute)
			if request.Execute == "guest-sync" {
				answer = `{"return": "late"}{"return": ` + string(request.Arguments.ID) + `}`
			}
			_, _ = io.WriteString(conn, answer+"\n")
		}
	}()
}

func TestMonitor(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "qmp")
	serveLines(t, socket, `{"QMP": {"version": {}}}`+"\n", func(command string) string {
		if command == "human-monitor-command" {
			return `{"error": {"class": "GenericError", "desc": "no such network"}}`
		}
		return `{"event": "SHUTDOWN", "data": {"guest": true, "reason": "guest-shutdown"}}{"return": {}}`
	})
	events := make(chan message, 10)
	m, err := connectMonitor(t.Context(), socket, func(event message) { events <- event })
	require.NoError(t, err)
	t.Cleanup(m.close)
	require.NoError(t, m.pressPowerButton())
	event := <-events
	require.Equal(t, "SHUTDOWN", event.Event)
	require.True(t, event.Data.Guest)
	require.ErrorContains(t, m.forward("net", 1, 2), "no such network")
}

// TestSilentMonitor requires that a command to a QEMU that hangs ends, and closes the connection.
func TestSilentMonitor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() {
			decoder := json.NewDecoder(theirs)
			var request message
			_ = decoder.Decode(&request)
			_, _ = io.WriteString(theirs, `{"return": {}}`)
			_ = decoder.Decode(&request) // and no reply
		}()
		m, err := newMonitor(ours, func(message) {})
		require.NoError(t, err)
		require.ErrorContains(t, m.pressPowerButton(), "system_powerdown: QEMU has not replied")
		<-m.closed
		require.ErrorContains(t, m.pressPowerButton(), "send system_powerdown to QEMU")
	})
}

// TestForward requires that the errors which the human monitor prints are returned.
func TestForward(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]string{
		``:                     "",
		`could not set up\r\n`: "could not set up",
	} {
		socket := filepath.Join(shortDir(t), "qmp")
		serveLines(t, socket, `{"QMP": {"version": {}}}`+"\n", func(command string) string {
			if command == "human-monitor-command" {
				return `{"return": "` + printed + `"}`
			}
			return `{"return": {}}`
		})
		m, err := connectMonitor(t.Context(), socket, func(message) {})
		require.NoError(t, err)
		t.Cleanup(m.close)
		if err := m.forward("net", 1, 2); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

// TestPowerOffWhileTheGuestEnds requires that an event before the reply to a command does not stop the
// reader.
func TestPowerOffWhileTheGuestEnds(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "qmp")
	serveLines(t, socket, `{"QMP": {"version": {}}}`+"\n", func(command string) string {
		if command == "system_powerdown" {
			return `{"event": "SHUTDOWN", "data": {"guest": true}}{"return": {}}`
		}
		return `{"return": {}}`
	})
	g := &guest{}
	m, err := connectMonitor(t.Context(), socket, g.onEvent)
	require.NoError(t, err)
	t.Cleanup(m.close)
	g.monitor = m
	require.NoError(t, g.powerOff())
	g.mu.Lock()
	defer g.mu.Unlock()
	require.True(t, g.off)
}

func TestAgent(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "agent")
	serveLines(t, socket, "", func(command string) string {
		return map[string]string{
			"guest-get-osinfo": `{"return": {"id": "debian", "pretty-name": "Debian 12", "kernel-release": "6.1"}}`,
			"guest-network-get-interfaces": `{"return": [{"name": "lo"}, {"name": "enp1s0", "hardware-address": "02:00:00:00:00:01",
				"ip-addresses": [{"ip-address": "10.0.2.15", "ip-address-type": "ipv4", "prefix": 24}]}]}`,
		}[command]
	})
	found, err := askAgent(t.Context(), socket)
	require.NoError(t, err)
	require.Equal(t, "debian", found.OS.ID)
	require.Equal(t, "Debian 12", found.OS.PrettyName)
	require.Equal(t, "6.1", found.OS.KernelRelease)
	require.Len(t, found.Interfaces, 1, "without the loopback interface")
	require.Equal(t, []string{"10.0.2.15"}, found.Interfaces[0].IPs)
}
