package test

import (
	"cmp"
	"flag"
	"hash/fnv"
)

// way is the transport by which the calls of the replicas reach vCenter.
type way string

const (
	byTLS  way = "tls"    // as in production, except that the network is in memory
	byHTTP way = "http"   // the same without TLS
	direct way = "direct" // without HTTP and XML once a session is open; tagging and storage policies use HTTP
)

var wayOfAll = flag.String("way", "", "how calls reach vCenter in random lives and in the campaign: tls, http or direct; by default each seed has its own")

// wayOf returns the way of the life of a seed. Most lives call directly, which is several times as fast. The test's first life uses TLS, and its
// second one HTTP.
func wayOf(seed uint64) way {
	ways := [10]way{byTLS, byHTTP}
	return cmp.Or(way(*wayOfAll), ways[seed%10], direct)
}

// wayOfName returns the way of a life that has a name instead of a seed.
func wayOfName(name string) way {
	return wayOf(hashOf(name))
}

func hashOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
}
