// Package rest is the REST API of the embedded vCenter, mainly for tagging.
//
// Its sessions end with the SOAP sessions, its calls are counted and fail on demand, and tags attach only to eligible objects. The answers
// are those of govmomi's simulator.
//
// Lock order: attaching before any other lock; mu comes last and is held only briefly.
package rest
