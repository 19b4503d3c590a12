package kubeconfig

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// Expiry says when credentials in a kubeconfig end.
type Expiry struct {
	// Kind is "client-certificate" or "token".
	Kind string
	// Begin is since when they are good; zero if they do not say so.
	Begin time.Time
	End   time.Time
}

// Lifetime returns how long the credentials are good in all; 0 if that is not known.
func (e Expiry) Lifetime() time.Duration {
	if e.Begin.IsZero() {
		return 0
	}

	return max(0, e.End.Sub(e.Begin))
}

// Expiries returns when the credentials of a kubeconfig's current context end, as they say themselves; nothing for those without an
// end. Its errors are RESTConfig's.
func Expiries(raw []byte) ([]Expiry, error) {
	config, _, err := RESTConfig(raw)
	if err != nil {
		return nil, err
	}

	return ExpiriesOf(config), nil
}

// ExpiriesOf returns what the credentials of a configuration say about their end, unverified: false claims can mislead their author only.
func ExpiriesOf(config *rest.Config) []Expiry {
	var list []Expiry

	if chain, err := cert.ParseCertsPEM(config.CertData); err == nil {
		list = append(list, Expiry{
			Kind: "client-certificate", Begin: since(float64(chain[0].NotBefore.Unix())), End: time.Unix(chain[0].NotAfter.Unix(), 0),
		})
	}

	if claims := claimsOf(config.BearerToken); claims.Exp > 0 {
		list = append(list, Expiry{Kind: "token", Begin: since(claims.Iat), End: at(claims.Exp)})
	}

	return list
}

// since returns a time at which something began; zero if it is not known.
func since(seconds float64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}

	return at(seconds)
}

// at returns a time, in seconds since 1970. Those beyond the year 9999 are taken for its end.
func at(seconds float64) time.Time {
	const lastSecond = 253402300799

	return time.Unix(int64(min(seconds, lastSecond)), 0)
}

// claims are those of a JSON Web Token that say when it is good, in seconds since 1970.
type claims struct {
	Iat float64 `json:"iat"`
	Exp float64 `json:"exp"`
}

// claimsOf returns a token's claims; none if it has none, or is no JSON Web Token.
func claimsOf(token string) claims {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}
	}

	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}
	}

	var read claims

	if err := json.Unmarshal(payload, &read); err != nil {
		return claims{}
	}

	return read
}
