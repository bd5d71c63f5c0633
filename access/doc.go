// Package access says who may use a server: keys with roles and tenants, the
// file that keeps them, and the keyring of a server.
package access
