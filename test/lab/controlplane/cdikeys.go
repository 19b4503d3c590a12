// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

// cdiKeys are the keys that CDI's operator would generate: the key pair of the clone tokens, and
// the certificate authorities of the upload servers.
type cdiKeys struct {
	private, public    []byte
	serverCA, clientCA []byte
}

// newCDIKeys generates the keys and writes the files that cdi-controller reads.
func newCDIKeys(p *pki) (cdiKeys, error) {
	var k cdiKeys
	token, err := newRSAKey()
	if err != nil {
		return k, err
	}
	k.private = encodeRSAKey(token)
	if k.public, err = encodeRSAPublicKey(token); err != nil {
		return k, err
	}
	if k.serverCA, err = writeUploadAuthority(p, "upload-server"); err != nil {
		return k, err
	}
	if k.clientCA, err = writeUploadAuthority(p, "upload-client"); err != nil {
		return k, err
	}
	if err := p.write("id_rsa", k.private); err != nil {
		return k, err
	}
	return k, p.write("id_rsa.pub", k.public)
}

func writeUploadAuthority(p *pki, name string) (certificate []byte, err error) {
	key, err := newRSAKey()
	if err != nil {
		return nil, err
	}
	a, err := newAuthority(name, key)
	if err != nil {
		return nil, err
	}
	if err := p.write(name+".crt", a.pem); err != nil {
		return nil, err
	}
	return a.pem, p.write(name+".key", encodeRSAKey(key))
}
