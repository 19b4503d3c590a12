// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// Expiry is the validity period of credentials in a kubeconfig.
type Expiry struct {
	// Kind is "client-certificate" or "token".
	Kind string
	// Begin is the start of the validity period; zero if it is unknown.
	Begin time.Time
	End   time.Time
}

// Lifetime returns the total validity of the credentials; 0 if it is unknown.
func (e Expiry) Lifetime() time.Duration {
	if e.Begin.IsZero() {
		return 0
	}

	return max(0, e.End.Sub(e.Begin))
}

// Expiries returns when the credentials of a kubeconfig's current context claim to expire; it omits
// credentials that do not expire. Its errors are those of RESTConfig.
func Expiries(raw []byte) ([]Expiry, error) {
	config, _, err := RESTConfig(raw)
	if err != nil {
		return nil, err
	}

	return ExpiriesOf(config), nil
}

// HasOpaqueToken reports whether the current context of a kubeconfig has a token that is not a JSON Web
// Token: only its issuer knows when it expires. It is false for an invalid kubeconfig.
func HasOpaqueToken(raw []byte) bool {
	config, _, err := RESTConfig(raw)

	return err == nil && config.BearerToken != "" && strings.Count(config.BearerToken, ".") != 2
}

// ExpiriesOf returns when the credentials of a configuration claim to expire. The claims are not
// verified, since false claims mislead only their author.
func ExpiriesOf(config *rest.Config) []Expiry {
	var list []Expiry

	if chain, err := cert.ParseCertsPEM(config.CertData); err == nil {
		leaf := chain[0]
		list = append(list, Expiry{
			Kind:  "client-certificate",
			Begin: timeOf(float64(leaf.NotBefore.Unix())),
			End:   time.Unix(leaf.NotAfter.Unix(), 0),
		})
	}

	if claims := claimsOf(config.BearerToken); claims.Exp > 0 {
		list = append(list, Expiry{Kind: "token", Begin: timeOf(claims.Iat), End: timeOf(claims.Exp)})
	}

	return list
}

// timeOf converts seconds since 1970 to a time, which is zero if the seconds are not set. Times
// after the year 9999 become its end.
func timeOf(seconds float64) time.Time {
	const lastSecond = 253402300799

	if seconds <= 0 {
		return time.Time{}
	}

	return time.Unix(int64(min(seconds, lastSecond)), 0)
}

// claims are the claims of a JSON Web Token about its validity, in seconds since 1970, and about those who
// issued it and may accept it.
type claims struct {
	Iat float64 `json:"iat"`
	Exp float64 `json:"exp"`
	Iss string  `json:"iss"`
	// Aud is a string or a list of strings.
	Aud any    `json:"aud"`
	Sub string `json:"sub"`
}

// Subject returns the user that a JSON Web Token claims to be of. It is untrusted text.
func Subject(token string) string { return claimsOf(token).Sub }

// Trust returns the issuer and the audiences that a JSON Web Token claims to have: an API server must trust
// the issuer and have one of the audiences to accept it. Both are untrusted text.
func Trust(token string) (issuer string, audiences []string) {
	read := claimsOf(token)

	switch aud := read.Aud.(type) {
	case string:
		audiences = []string{aud}
	case []any:
		for _, a := range aud {
			if text, ok := a.(string); ok {
				audiences = append(audiences, text)
			}
		}
	}

	return read.Iss, audiences
}

// claimsOf returns a token's claims; they are zero if it is not a JSON Web Token.
func claimsOf(token string) claims {
	var read claims

	if parts := strings.Split(token, "."); len(parts) == 3 {
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil || json.Unmarshal(payload, &read) != nil {
			return claims{}
		}
	}

	return read
}
