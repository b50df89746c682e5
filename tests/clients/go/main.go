// Programs of tests/clients over libraries of Go: `clients LIBRARY WRITER-PORT READER-PORT` prints,
// as one line of JSON, what it saw.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
)

var libraries = map[string]struct {
	module string
	run    func(writer, reader string) map[string]any
}{
	"go-redis":  {"github.com/redis/go-redis/v9", scenarioOf(connectGoRedis)},
	"redigo":    {"github.com/gomodule/redigo", scenarioOf(connectRedigo)},
	"rueidis":   {"github.com/redis/rueidis", scenarioOf(connectRueidis)},
	"watermill": {"github.com/ThreeDotsLabs/watermill-redisstream", watermillScenario},
}

func main() {
	library := libraries[os.Args[1]]
	seen := library.run("127.0.0.1:"+os.Args[2], "127.0.0.1:"+os.Args[3])
	seen["library"] = fmt.Sprintf("%s %s", os.Args[1], version(library.module))
	fmt.Println(string(must(json.Marshal(seen))))
}

func version(module string) string {
	build, _ := debug.ReadBuildInfo()
	for _, one := range build.Deps {
		if one.Path == module {
			return one.Version
		}
	}
	return "unknown"
}

// must ends the program with an error that the scenario does not expect.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
