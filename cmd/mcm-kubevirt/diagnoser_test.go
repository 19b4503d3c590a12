package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOtherServer(t *testing.T) {
	t.Parallel()

	shoot := shootWith(goodKubeconfig).leased(justNow, justNow)
	shoot[mcPath+"machines/m"] = strings.Replace(shoot[mcPath+"machines/m"], `"spec":{`, `"spec":{"providerID":"kubevirt://m",`, 1)

	other := write(t, "other.yaml", cluster{}.provider(t))
	out, err := run(t, "", "diagnose", "--kubeconfig", shoot.control(t), "--provider-kubeconfig", other, "m")
	require.Equal(t, exitUsage, exitCode(err), out)

	text := strings.Join(strings.Fields(out), " ")
	require.Contains(t, text, "NOT DIAGNOSED")
	require.Contains(t, text, "the MachineClass's Secret names server https://kubevirt.example.com")
	require.NotContains(t, text, "MachineVanished", "it is on the other cluster")
}
