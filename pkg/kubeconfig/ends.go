package kubeconfig

import "time"

// Expiry says when credentials in a kubeconfig end.
type Expiry struct {
	// Kind is "client-certificate" or "token".
	Kind string
	// Begin is since when they are good; zero if they do not say so.
	Begin time.Time
	End   time.Time
}

// Expiries returns when the credentials of a kubeconfig's current context end, as they say themselves; nothing for those without an
// end. Its errors are RESTConfig's.
func Expiries(raw []byte) ([]Expiry, error) {
	config, _, err := RESTConfig(raw)
	if err != nil {
		return nil, err
	}

	var list []Expiry

	for _, e := range expiriesOf(config) {
		end := Expiry{Kind: e.kind, End: time.Unix(int64(e.at), 0)}
		if e.since > 0 {
			end.Begin = time.Unix(int64(e.since), 0)
		}

		list = append(list, end)
	}

	return list, nil
}
