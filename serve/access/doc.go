// Package access holds the API keys of a server: whose tenant a key is of, what the key
// may do by its role, and where keys and quotas are stored.
package access
