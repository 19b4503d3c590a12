// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

// UserDataCanary is in the user data of the tests' machines. Nothing that the driver writes, other
// than Secrets, may contain it.
const UserDataCanary = "c4n4ry+user/data=1f6b8e2d9a&5c"

// Phrases of other user data, written by the tests and the example.
const (
	replayedData = "# bootstrap token "
	exampleData  = "path: /etc/kubernetes/bootstrap-kubeconfig"
)

// Secret is a secret that the tests used. Its name may be printed.
type Secret struct {
	Name string
	Text []byte
}

// needlesIn returns the needles of the search.
func needlesIn(records []*Record) []needle {
	needles := needlesOf("user data", UserDataCanary)
	needles = append(needles, needlesOf("replayed user data", replayedData)...)
	needles = append(needles, needlesOf("the example's user data", exampleData)...)

	for _, r := range records {
		for _, s := range r.Secrets {
			needles = append(needles, needlesOf(s.Name, string(s.Text))...)
		}
	}

	return needles
}
