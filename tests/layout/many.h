// RapidCheck runs a property a hundred times; cheap ones want more.
#pragma once

namespace wb {

template <typename Property>
auto many(Property property) {
  return [property] {
    for (int i = 0; i < 20; ++i) property();
  };
}

}  // namespace wb
